"""The front doors, scikit-learn style, one file each."""
