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
    value = TOPLEVEL_BINDING.eval(code, "cell #{number}")
    {result: value.nil? ? nil : value.inspect}
  rescue SystemExit
    raise
  rescue Exception => error # also what is no StandardError: a cell may raise anything
    {error: described(error)}
  end

  def self.next_line
    ASKS.gets
  rescue Interrupt # between two cells
    retry
  end

  def self.serve
    while (line = next_line)
      asked = JSON.parse(line)
      answer(run(asked["code"], asked["number"]))
    end
  end
end

ARGV.clear
$stdout.sync = $stderr.sync = true
Limpet.serve
