"""What pandas understands: loads, schemas, activity, credential reports, plots."""
