"""What the adapters share, made of what the package exports."""
