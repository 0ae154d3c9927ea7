"""Checks the sales that are in the store. The reports of the services are not used."""

import json
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypedDict


class Sale(TypedDict):
    """One field of the hash of sales."""

    user: str
    language: str
    token: int
    left: int


@dataclass(frozen=True)
class AuditResult:
    """The sales of a run and their problems."""

    sold: dict[str, int]
    oversold: int
    double_sales: int
    hand_overs: int
    """How often a sale was made by another language than the sale before it."""
    problems: list[str] = field(default_factory=list)


def audit_sales(
    stock: int, left: int, sales: dict[str, str], orders: dict[str, str], languages: list[str]
) -> AuditResult:
    """Checks a run that started with `stock` vouchers and ended with `left` in the store."""
    parsed: list[Sale] = [json.loads(sale) for sale in sales.values()]
    # Sorts the sales by time: each sale reduces the stock by one.
    parsed.sort(key=lambda sale: (-sale["left"], sale["token"]))
    sold = Counter(sale["language"] for sale in parsed)
    users = Counter(sale["user"] for sale in parsed)
    oversold = max(0, len(parsed) - stock)
    double_sales = sum(times - 1 for times in users.values())

    problems = []
    if oversold:
        problems.append(f"{oversold} more vouchers were sold than there were")
    if double_sales:
        problems.append(f"{double_sales} vouchers went to users that already had one")
    if left != 0 or len(parsed) < stock:
        problems.append(f"{len(parsed)} of {stock} vouchers were sold, and {left} are left in the stock")
    if [sale["left"] for sale in parsed] != list(range(stock - 1, -1, -1)):
        problems.append("the stock did not fall by one with each sale")
    if any(later["token"] <= earlier["token"] for earlier, later in pairwise(parsed)):
        problems.append("a fencing token did not rise")
    if orders.keys() != users.keys() or any(sale not in sales for sale in orders.values()):
        problems.append("the orders and the sales do not match")
    problems += [f"{language} sold nothing" for language in languages if not sold[language]]
    return AuditResult(
        sold={language: sold[language] for language in languages},
        oversold=oversold,
        double_sales=double_sales,
        hand_overs=sum(a["language"] != b["language"] for a, b in pairwise(parsed)),
        problems=problems,
    )
