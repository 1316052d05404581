"""Small parts that encoders and decoders share."""
