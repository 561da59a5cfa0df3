"""Changes of the schema of the results database, oldest first; `engram.arena.schema` runs them."""
