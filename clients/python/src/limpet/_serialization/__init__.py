"""Values on their way into a session and out of it."""
