"""Text taken apart: words counted, letters shifted, lines wrapped, differences found."""
import collections
import difflib
import textwrap

TEXT = "It was the best of times, it was the worst of times, it was the age of wisdom. " * 300


def work():
    words = [word.strip(".,").lower() for word in TEXT.split()]
    counts = collections.Counter(words)
    shifted = "".join(chr((ord(c) - 97 + 13) % 26 + 97) if "a" <= c <= "z" else c for c in TEXT)
    lines = textwrap.wrap(shifted, 60)
    ratio = difflib.SequenceMatcher(None, words[:120], words[5:130]).ratio()
    return counts.most_common(2), len(lines), round(ratio, 6), shifted.find("gvzrf")
