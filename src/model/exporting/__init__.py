"""Networks written for other programs: weights alone as safetensors, or as graphs (torch.export, ONNX)."""
