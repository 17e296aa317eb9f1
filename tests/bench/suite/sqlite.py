"""A database in memory: rows put in, an index, joins and groups."""
import sqlite3


def work():
    base = sqlite3.connect(":memory:")
    base.execute("create table item (id integer primary key, shop integer, price real, name text)")
    base.execute("create table shop (id integer primary key, city text)")
    base.executemany("insert into shop values (?, ?)", ((i, f"city {i % 7}") for i in range(50)))
    base.executemany("insert into item values (?, ?, ?, ?)",
                     ((i, i % 50, i * 0.75, f"item {i}") for i in range(3500)))
    base.execute("create index by_shop on item (shop)")
    rows = base.execute("select city, count(*), sum(price), max(name) from item join shop on shop.id = shop "
                        "group by city order by city").fetchall()
    total = sum(price for price, in base.execute("select price from item where name like '%7%'"))
    base.close()
    return rows[2], total
