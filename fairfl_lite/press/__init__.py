"""From notebooks to the book: parameters checked, runs made and kept, outputs compared, figures and pages made."""
