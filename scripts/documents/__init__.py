"""The parts of the documents that come from the code; see scripts/generate-docs."""
