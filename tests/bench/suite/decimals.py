"""Decimal numbers: interest on an account, and the exponential function by its series."""
import decimal


def exponential(x, context):
    total, term, n = decimal.Decimal(1), decimal.Decimal(1), 1
    while context.abs(term) > decimal.Decimal(10) ** -60:
        term = context.divide(context.multiply(term, x), decimal.Decimal(n))
        total = context.add(total, term)
        n += 1
    return total


def work():
    context = decimal.Context(prec=64)
    account, rate = decimal.Decimal("1000.00"), decimal.Decimal("0.00127")
    for _ in range(8000):
        account = context.quantize(context.multiply(account, 1 + rate), decimal.Decimal("0.01"))
        if account > 5000:
            account -= decimal.Decimal("3999.99")
    powers = [exponential(decimal.Decimal(i) / 7, context) for i in range(80)]
    return str(account), str(sum(powers))
