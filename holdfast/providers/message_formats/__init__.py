"""Message lists of other libraries: the forms of OpenAI's and Anthropic's APIs, in both directions.

Here a person's list is converted, as a program or a file has it, and every problem in it is
reported at once. The encoders of the providers write requests; this is not on their path.
"""
