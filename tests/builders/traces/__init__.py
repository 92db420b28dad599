"""Small handmade traces and logs of each format."""
