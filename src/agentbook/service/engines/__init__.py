"""The agents' engines, behind one small interface."""
