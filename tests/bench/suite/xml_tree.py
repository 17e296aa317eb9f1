"""A tree of XML made, written, read and searched."""
import xml.etree.ElementTree as tree


def work():
    root = tree.Element("shop")
    for i in range(1200):
        item = tree.SubElement(root, "item", {"id": str(i), "kind": f"k{i % 5}"})
        tree.SubElement(item, "price").text = f"{i * 0.5:.2f}"
        tree.SubElement(item, "name").text = f"item <{i}>"
    text = tree.tostring(root, encoding="unicode")
    read = tree.fromstring(text)
    prices = [float(item.findtext("price")) for item in read.iter("item") if item.get("kind") == "k3"]
    return len(text), sum(prices), len(read.findall("./item[@kind='k1']/name"))
