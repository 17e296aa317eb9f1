"""What a call sends while it runs, and what it asks of the caller."""
