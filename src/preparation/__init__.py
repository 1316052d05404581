"""From raw recordings and annotations to stores."""
