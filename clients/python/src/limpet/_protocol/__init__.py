"""The messages: how each request is made, and how its reply is read."""
