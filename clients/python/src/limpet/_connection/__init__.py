"""How a client reaches a controller, and what it does when that is lost."""
