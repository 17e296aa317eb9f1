"""Processes that multiprocessing starts anew, by the methods spawn and forkserver: what a script that is their main module
would define there comes to them from limpet_workers.
"""

from limpet_runtime import library


def adapt_spawn(spawn):
    original = spawn.get_preparation_data

    def get_preparation_data(name):
        data = original(name)
        if not data.keys() & {"init_main_from_path", "init_main_from_name"}:
            add_main(data, spawn)
        return data

    spawn.get_preparation_data = get_preparation_data


def add_main(data, spawn):
    with library.Library():
        try:
            import limpet_workers
        except ImportError:
            return  # without cloudpickle
    limpet_workers.add_main(data, spawn)
