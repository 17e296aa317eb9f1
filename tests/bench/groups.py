"""All that a run consists of, in its order."""
import adapters
import browser
import commands
import compute
import files
import gateway
import hardening
import latency
import load
import memory
import network
import numeric
import packages
import remote
import scale
import sleep
import start
import state
import state_cost
import state_jupyter
import streams
import templates
import transfers
import values

ALL = [module.GROUP for module in
       (latency, commands, compute, numeric, hardening, load, start, sleep, templates, memory, streams, files, transfers, network, remote, packages, values,
        state, state_cost, state_jupyter, adapters, gateway, browser, scale)]
