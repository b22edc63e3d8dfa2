"""Training the generator across the clients, where nobody may pool their images.

Each round every client of a cohort takes some DDPM steps on its own images, and the server averages
what comes back. The generator is the exponential mean of these averages over the rounds. It is
saved as an ordinary generator, and handed to the clients when they prepare.
"""
