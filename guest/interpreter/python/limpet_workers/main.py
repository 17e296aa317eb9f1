import limpet_workers

limpet_workers.define(globals())
del limpet_workers
