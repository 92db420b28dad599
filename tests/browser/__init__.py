"""Reports as a browser shows them: Chromium, a page like GitHub's, and a lab of npm packages."""
