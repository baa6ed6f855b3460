"""Optional packages by extra, and the error where one is missing."""

from zocosmo.errors import InputError

EXTRAS = {  # extra → modules that it brings; the first that has a module is the one to install
    "plot": ("matplotlib",),
    "watch": ("starlette", "uvicorn"),
    "cluster": ("distributed", "dask", "mpi4py"),
    "net": ("pyzmq", "zmq", "cryptography"),
    "torch": ("torch", "safetensors"),  # and cryptography, which who has torch has
    "llm": ("transformers", "peft", "accelerate", "gguf", "datasets", "filelock", "psutil"),
}


def missing(what: str, module: str, extra: str = "") -> InputError:
    """The error for something that needs a module of an extra: what to install.

    With the package installed, from a wheel or a clone, pip takes that one and adds what the extra lists.
    """
    return InputError(f'{what} needs {module}; run: pip install "zocosmo[{extra or extra_of(module)}]"')


def extra_of(module: str | None) -> str:
    """The extra that has a module; empty if none has."""
    top = (module or "").split(".")[0]
    return next((extra for extra, modules in EXTRAS.items() if top in modules), "")
