"""Record → one HTML file: no request, no style or script but its own, legible without script."""
