"""The examples on a real Gitea, with its runner and GitHub's own actions."""
