"""Methods to compare with, one file each, called as SalViT is."""
