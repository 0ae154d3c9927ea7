"""Checks the result of each variant, and prints the final table."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table

from buyers import ALREADY, BOUGHT, BUSY, SOLD_OUT, Answers


@dataclass(frozen=True)
class Voucher:
    """The state of the voucher, as the service counts it in the database."""

    first_stock: int
    stock: int
    orders: int
    double_orders: int


@dataclass(frozen=True)
class Result:
    """The result of one variant."""

    variant: str
    answers: Answers
    voucher: Voucher
    problems: list[str]


# Each variant, and where its lock is in relation to the transaction.
TITLES = {"none": "no lock", "inside": "lock inside", "outside": "lock outside"}


def find_problems(variant: str, answers: Answers, voucher: Voucher, requests: int) -> list[str]:
    """Returns all problems of a result. The first two variants must have double orders, because the demo shows them."""
    problems = [f"unexpected: {text}" for text in answers.unexpected[:5]]
    answered = answers.counts.total() + len(answers.unexpected)
    if answered != requests:
        problems.append(f"{requests} requests had {answered} answers")
    if voucher.stock != 0 or voucher.orders != voucher.first_stock:
        problems.append(f"of {voucher.first_stock} vouchers {voucher.orders} were sold and {voucher.stock} are left")
    if voucher.orders != answers.counts[BOUGHT]:
        problems.append(f"{answers.counts[BOUGHT]} buyers got an order, and there are {voucher.orders}")
    if variant == "outside":
        if voucher.double_orders:
            problems.append(f"{voucher.double_orders} double orders")
        if answers.found_late:
            problems.append(f"{answers.found_late} double orders were found only by the constraint")
        problems += [f"no answer was: {answer}" for answer in (BUSY, ALREADY, SOLD_OUT) if not answers.counts[answer]]
    elif not voucher.double_orders:
        problems.append("no double order occurred, so the demo shows nothing")
    return problems


def final_table(console: Console, results: list[Result], title: str) -> None:
    table = Table(title=title)
    table.add_column("variant", no_wrap=True)
    for heading in (BOUGHT, BUSY, ALREADY, SOLD_OUT, "stock left", "double orders"):
        table.add_column(heading.replace(" ", "\n"), justify="right", no_wrap=True)
    for result in results:
        counts = result.answers.counts
        double = result.voucher.double_orders
        table.add_row(
            TITLES[result.variant],
            *(f"{counts[answer]:,}" for answer in (BOUGHT, BUSY, ALREADY, SOLD_OUT)),
            f"{result.voucher.stock:,}",
            f"[red]{double:,}[/red]" if double else "0",
        )
    console.print(table)
    for result in results:
        answers = result.answers
        console.print(
            f"{TITLES[result.variant]:12}  double orders {result.voucher.double_orders:3}  "
            f"{answers.seconds:.1f} s, slowest answer {answers.slowest:.1f} s, retries {answers.retries}",
            soft_wrap=True,
        )
    for result in results:
        for problem in result.problems:
            console.print(f"[red]wrong:[/red] {TITLES[result.variant]}: {problem}", soft_wrap=True)
