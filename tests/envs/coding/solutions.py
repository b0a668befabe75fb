"""A solution of each task that comes with the package."""

SOLUTIONS = {
    "fold-a-strip": """
def creases(n):
    strip = ""
    for _ in range(n):
        strip = "".join(("VM"[i % 2]) + (strip[i] if i < len(strip) else "")
                        for i in range(len(strip) + 1))
    return strip
""",
    "parking": """
def most_parked(stays):
    events = sorted([(a, 1) for a, d in stays] + [(d, -1) for a, d in stays])
    most = now = 0
    for _, change in events:
        now += change
        most = max(most, now)
    return most
""",
    "lamp-code": """
import re

def decode(signal):
    text = ""
    for run in re.findall("1+|0+", signal.strip("0")):
        if run[0] == "1":
            text += "." if len(run) <= 2 else "-"
        elif len(run) >= 5:
            text += " "
    return text
""",
    "staircase-sum": """
def stairs(n):
    return sum(n % d == 0 for d in range(3, n + 1, 2))
""",
    "unit-prices": """
from fractions import Fraction

def cheapest(offers):
    if not offers:
        return None
    return min(offers, key=lambda o: (Fraction(o["price"], o["grams"]), o["grams"], o["name"]))["name"]
""",
    "ripple": """
def ripple(field, row, column):
    if field[row][column] == "#":
        return {}
    found = {(row, column): 0}
    queue = [(row, column)]
    for r, c in queue:
        for y, x in ((r + 1, c), (r - 1, c), (r, c + 1), (r, c - 1)):
            if 0 <= y < len(field) and 0 <= x < len(field[0]) and field[y][x] == "." and (y, x) not in found:
                found[y, x] = found[r, c] + 1
                queue.append((y, x))
    return found
""",
    "roman-clock": """
import sys

for line in sys.stdin:
    hour, minute = map(int, line.split(":"))
    strokes = sum((h - 1) % 12 + 1 for h in range(hour + 1))
    print(strokes + hour + (minute >= 30))
""",
    "word-ladder-score": """
def score(words):
    total = 0
    for a, b in zip(words, words[1:]):
        total += sum(x != y for x, y in zip(a, b)) + 2 * abs(len(a) - len(b))
    return total
""",
    "kiln": """
def curve(targets, rate, start=20.0):
    total = 0.0
    for temperature, hold in targets:
        total += abs(temperature - start) / rate + hold
        start = temperature
    return total
""",
    "tally": """
import collections, re, sys

words = collections.Counter(re.findall("[a-z]+", sys.stdin.read().lower()))
for word, count in sorted(words.items(), key=lambda item: (-item[1], item[0])):
    print(word, count)
""",
    "ledger": """
class Ledger:
    def __init__(self):
        self.accounts, self.done = {}, []

    def put(self, account, cents):
        self.done.append((account, cents))
        self.accounts[account] = self.balance(account) + cents
        return self.accounts[account]

    def undo(self):
        if not self.done:
            return False
        account, cents = self.done.pop()
        self.accounts[account] -= cents
        return True

    def balance(self, account):
        return self.accounts.get(account, 0)
""",
}
