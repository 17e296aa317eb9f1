"""copy.deepcopy() of nested lists, dicts and objects that refer to each other."""
import copy


class Node:
    def __init__(self, name, parent):
        self.name, self.parent, self.children, self.data = name, parent, [], {"weights": [1.5, 2.5], "seen": {1, 2}}
        if parent:
            parent.children.append(self)


def work():
    root = Node("root", None)
    for i in range(60):
        branch = Node(f"branch {i}", root)
        for j in range(10):
            Node(f"leaf {i}.{j}", branch)
    copied = copy.deepcopy(root)
    return len(copied.children), copied.children[3].parent is copied
