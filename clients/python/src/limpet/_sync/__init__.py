"""The blocking client. Two of its files are generated: scripts/generate-blocking."""
