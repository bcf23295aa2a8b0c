"""The estimators, in scikit-learn style, one file each."""
