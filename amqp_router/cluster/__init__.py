"""What nodes agree on: registry port and its stand-alone form."""
