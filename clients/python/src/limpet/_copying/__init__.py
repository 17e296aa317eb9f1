"""The local ends of copies between this machine and a session."""
