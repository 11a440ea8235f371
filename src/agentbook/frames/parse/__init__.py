"""From the bytes of a page to Arrow columns: schemas, content, ids, masking, problems."""
