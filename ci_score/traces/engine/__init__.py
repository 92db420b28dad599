"""What all readers of device traces share."""
