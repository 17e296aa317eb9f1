# Runs cells of Ruby one after the other; limpet_languages/live.py says how it is asked.
require "json"

module Limpet
  ASKS, ANSWERS = IO.for_fd(ARGV[0].to_i, "r"), IO.for_fd(ARGV[1].to_i, "w")

  # Shows something: MIME types with text, in base64 where the form is binary.
  def self.display(data)
    answer(display: data)
  end

  def self.answer(message)
    ANSWERS.write(JSON.generate(message) + "\n")
    ANSWERS.flush
  end

  def self.described(error)
    frames = (error.backtrace || []).reject { |frame| frame.start_with?(__FILE__) || frame.include?("in `eval'") }
    error.set_backtrace(frames)
    [error.class.name, error.message, error.full_message(highlight: false, order: :top)]
  end

  def self.run(code, number)
    interruptible do
      value = TOPLEVEL_BINDING.eval(code, "cell #{number}")
      {result: value.nil? ? nil : value.inspect}
    end
  rescue SystemExit
    raise
  rescue Exception => error # also what is no StandardError: a cell may raise anything
    {error: described(error)}
  end

  # Only what a cell does is interrupted: an interrupt that came while its answer is made, or between two cells, would
  # end the program, and the variables with it.
  def self.interruptible(&)
    Thread.handle_interrupt(Interrupt => :immediate, &)
  end

  # One that came too late for a cell is not for the next one.
  def self.forget_interrupts
    interruptible { Thread.pass }
  rescue Interrupt
    retry
  end

  def self.serve
    while (line = ASKS.gets)
      forget_interrupts
      asked = JSON.parse(line)
      answer(run(asked["code"], asked["number"]))
    end
  end
end

ARGV.clear
$stdout.sync = $stderr.sync = true
# Ruby raises its own Interrupt wherever it is; one that a thread raises waits until it may come.
trap("INT") { Thread.main.raise(Interrupt, "") }
Thread.handle_interrupt(Interrupt => :never) { Limpet.serve }
