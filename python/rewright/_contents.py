"""The ways in which a model is given."""

import os


def contents(model):
    """The bytes of a model that is given as bytes or an onnx.ModelProto, or the path of its file."""
    if hasattr(model, "SerializeToString"):
        return model.SerializeToString()
    if isinstance(model, (bytes, bytearray, memoryview)):
        return bytes(model)
    return os.fspath(model)
