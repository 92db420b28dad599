"""Small traces and logs of each format, by hand: say only what a test is about."""
