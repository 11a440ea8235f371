"""The widgets of the panel."""
