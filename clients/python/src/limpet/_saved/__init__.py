"""A session as a file, and its calls as a notebook."""
