"""Which languages there are here. Run as a program, this prints their names as JSON, for those who let people choose one."""

import json
import os

HERE = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "languages")


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def is_program(name):
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return any(os.access(os.path.join(folder, name), os.X_OK) for folder in folders)


def is_here(language):
    return all(map(is_program, language["programs"])) and all(map(os.path.exists, language.get("files", [])))


def all_described():
    languages = [read(os.path.join(HERE, name)) for name in sorted(os.listdir(HERE)) if name.endswith(".json")]
    return [language for language in languages if "run" in language or "driver" in language]


def here():
    return ["python", *(language["name"] for language in all_described() if is_here(language))]


if __name__ == "__main__":
    print(json.dumps(here()))
