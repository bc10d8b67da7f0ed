#!/usr/bin/env python3
"""Made access.log.gz: a synthetic day of a small shop's web server. Deterministic: the same program, the same file.

Not part of the workflow; kept to show where the data comes from. Nobody's visits are in it: the addresses are those
reserved for documentation (RFC 5737, RFC 3849), the shop does not exist.

    python3 generate.py | gzip -9n > access.log.gz
"""
import math
import random
from datetime import datetime, timedelta, timezone

DAY = datetime(2026, 3, 14, tzinfo=timezone.utc)
LINES = 3000
BURSTS = [(14 * 60 + 5, 14 * 60 + 12, 0.55, 502), (20 * 60 + 31, 20 * 60 + 34, 0.75, 503)]  # from, to, share, status
PAGES = [("/", 18, 12, 9000), ("/category/bread", 9, 35, 14000), ("/category/cheese", 8, 35, 14500),
         ("/category/coffee", 10, 34, 15100), ("/product/rye-bread", 6, 28, 8200), ("/product/gouda", 5, 28, 8400),
         ("/product/espresso-500g", 7, 29, 8600), ("/product/butter", 3, 27, 7900), ("/search?q=coffee", 4, 240, 11200),
         ("/search?q=cheese", 3, 230, 11800), ("/search?q=gluten+free", 1, 260, 6100), ("/cart", 7, 48, 5200),
         ("/checkout", 4, 310, 6800), ("/account", 2, 60, 7100), ("/static/site.css", 5, 3, 22000),
         ("/static/logo.svg", 4, 2, 3100), ("/robots.txt", 1, 2, 120)]
NOISE = ["/wp-login.php", "/.env", "/admin/config.php", "/category/tea", "/product/goudda"]
AGENTS = ["Mozilla/5.0 (X11; Linux x86_64; rv:136.0) Gecko/20100101 Firefox/136.0",
          "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 Chrome/134.0 Safari/537.36",
          "Mozilla/5.0 (iPhone; CPU iPhone OS 18_3 like Mac OS X) AppleWebKit/605.1.15 Mobile Safari/604.1"]
BOT = "ExampleBot/2.1 (+https://bot.example/about)"


def busy(minute):
    """How busy the shop is at a minute of the day: quiet nights, a rise at noon, the peak in the evening."""
    hour = minute / 60
    return 0.12 + 0.7 * math.exp(-((hour - 12.3) / 2.6) ** 2) + 1.0 * math.exp(-((hour - 19.6) / 2.3) ** 2)


def main():
    dice = random.Random(20260314)
    weights = [busy(minute) for minute in range(1440)]
    seconds = sorted(minute * 60 + dice.randrange(60) for minute in dice.choices(range(1440), weights, k=LINES - 160))
    for begin, end, _, _ in BURSTS:  # people reload what fails
        seconds += [dice.randrange(begin * 60, end * 60) for _ in range(80)]
    seconds.sort()
    visitors = [f"{net}.{host}" for net in ("192.0.2", "198.51.100", "203.0.113") for host in range(2, 250, 4)]
    visitors += [f"2001:db8:{dice.randrange(1, 60):x}::{dice.randrange(1, 9999):x}" for _ in range(50)]
    agent_of = {visitor: dice.choice(AGENTS) for visitor in visitors}

    for number, second in enumerate(seconds):
        minute = second // 60
        if number % 500 == 333:  # what port scanners leave in such logs
            stamp = (DAY + timedelta(seconds=second)).strftime("%d/%b/%Y:%H:%M:%S +0000")
            print(f'203.0.113.77 - - [{stamp}] "\\x16\\x03\\x01\\x02" 400 166 "-" "-"')
            continue
        visitor, agent = dice.choice(visitors), None
        path, _, middle, size = dice.choices(PAGES, [page[1] for page in PAGES])[0]
        method, status = "GET", 200
        kind = dice.random()
        if kind < 0.03:
            path, status, middle, size = dice.choice(NOISE), 404, 4, 1400
        elif kind < 0.07:
            visitor, agent = "198.51.100.200", BOT
        elif kind < 0.09:
            status, size, middle = 304, 0, 3
        elif path == "/checkout" and dice.random() < 0.6:
            method, status, size = "POST", 303, 0
        took = middle * dice.lognormvariate(0, 0.45)
        if 12 * 60 <= minute < 13 * 60 and path.startswith(("/search", "/checkout")):
            took *= 4.5  # the backup ran at noon
        for begin, end, share, error in BURSTS:
            if begin <= minute < end and not path.startswith("/static") and dice.random() < share:
                status, size, took = error, 560, 30 if error == 503 else dice.uniform(2900, 3100)
        stamp = (DAY + timedelta(seconds=second)).strftime("%d/%b/%Y:%H:%M:%S +0000")
        length = size if size < 1000 else int(size * dice.uniform(0.9, 1.1))
        referer = "-" if dice.random() < 0.5 else "https://shop.example/"
        print(f'{visitor} - - [{stamp}] "{method} {path} HTTP/1.1" {status} {length} "{referer}" '
              f'"{agent or agent_of[visitor]}" {took / 1000:.3f}')


main()
