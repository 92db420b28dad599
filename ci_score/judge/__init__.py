"""What changed × how sure that is × the policy → the verdict of each case."""
