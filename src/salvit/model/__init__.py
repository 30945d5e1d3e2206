"""The network: SalViT and the few-shot keypoint pipeline of the paper. Start reading at ``detector.py``."""
