"""What is shown of a model: scores of data sets as tables, JSON, CSV and pages, and how they are made."""
