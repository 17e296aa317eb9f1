"""Regular expressions over a log: searching, groups, substitution, splitting."""
import re

LINE = re.compile(r"^(?P<host>\d+(?:\.\d+){3}) \[(?P<day>[^]]+)\] \"(?P<verb>GET|PUT) (?P<path>/\S*)\" (?P<code>\d{3})$", re.M)
WORD = re.compile(r"\b([a-z]+)-(\d+)\b")


def work():
    log = "\n".join(f'10.0.{i % 7}.{i % 251} [{i % 28 + 1:02}/May] "{("GET", "PUT")[i % 2]} /page-{i}/x.html" {200 + i % 5}'
                    for i in range(900))
    codes = [int(match["code"]) for match in LINE.finditer(log) if match["verb"] == "GET"]
    swapped = WORD.sub(lambda match: f"{match[2]}-{match[1]}", log)
    return len(codes), sum(codes), len(re.split(r"[\s/]+", swapped)), len(re.findall(r"(?i)(?:html|may)", log))
