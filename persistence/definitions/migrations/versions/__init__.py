"""One module for each schema, in the order of their numbers; once released, a module is never changed."""
