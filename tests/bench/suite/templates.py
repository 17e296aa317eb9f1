"""Text made from pieces: f-strings, format, str.join, string.Template, and a table in HTML."""
import html
import string

PAGE = string.Template("<html><title>$title</title><body>$body</body></html>")


def row(i):
    cells = [f"{i:05d}", f"{i / 7:.3f}", "{:>10}|{:<6}".format(i, hex(i)), html.escape(f"<{i} & 'x'>"), "%s:%d" % ("n", i)]
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"


def work():
    body = "\n".join(row(i) for i in range(900))
    page = PAGE.substitute(title="A table", body=body)
    words = page.replace("<td>", " ").replace("</td>", " ").split()
    return len(page), len(words), page.count("&amp;"), words[100].upper().center(20, "*")
