"""A model as one ONNX file, from sound to verdict."""
