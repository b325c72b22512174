"""Single wrong edits of the search and the model, each of which a named test must notice."""
